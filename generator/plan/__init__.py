"""What an environment will use and cost. Arithmetic only: no file, no network."""

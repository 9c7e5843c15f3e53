"""What a release of the chart is made of: its changelog, and a package with the same bytes on every machine."""

"""Train a Qwen2.5 model with FSDP2 under Ray Train, torchrun or one process. Importing this loads neither of them."""

__version__ = "0.1.0"

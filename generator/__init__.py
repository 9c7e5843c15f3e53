"""Validate one typed environment file and render everything that a training on EKS needs from it."""

__version__ = "0.1.0"

"""AccelOpt LSP: a language server and an optimizer for NKI kernels on AWS Trainium."""

__version__ = "0.1.0"

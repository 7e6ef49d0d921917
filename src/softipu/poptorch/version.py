"""PopTorch's version that the software IPU follows."""

VERSION = "3.4.0+software"

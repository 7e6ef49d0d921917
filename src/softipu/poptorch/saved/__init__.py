"""Compiled models as files. Reading one never runs code from it: see docs/design/saved_models.md.

- archive.py: documents of plain JSON and the bytes of tensors, in one zip file
- values.py: Python values as JSON
- known_classes.py: classes by name, among those that the program has imported already
- module_form.py: a module as its classes, plain attributes and weights
- optimizer_form.py: an optimizer as its class and numbers
- options_form.py: options as their values
- call_form.py: the inputs that a model was compiled for
- model_file.py: all of them together
"""

from softipu.poptorch.saved.model_file import SavedModel, read, write

__all__ = ["SavedModel", "read", "write"]

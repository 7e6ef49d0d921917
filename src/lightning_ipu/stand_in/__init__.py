"""A folder for Python's path: `import poptorch` there means the software IPU's."""

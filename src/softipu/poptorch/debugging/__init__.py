"""Looking inside a compiled model: names of its tensors, anchors, time stamps, logged numbers."""

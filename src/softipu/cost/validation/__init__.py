"""Published runs priced by the model: where the measured figures are known, how far off it is."""

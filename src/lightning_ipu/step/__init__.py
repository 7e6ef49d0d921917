"""One step of a LightningModule as a compiled program: captured, called, its results and logged values given back."""

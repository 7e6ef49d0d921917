"""trainingModel, inferenceModel and the executor that they return: compilation and calls."""

"""The compiled engine: graphs through PyTorch's Inductor to C++."""

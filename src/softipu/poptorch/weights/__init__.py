"""Parameters and their values: on the host, on the device, per group of replicas."""

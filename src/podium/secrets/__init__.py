"""Sources of secret values: the environment, or the sources in the configuration file."""

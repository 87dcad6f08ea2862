"""Where the values of secrets come from: the environment, or what the configuration file names instead."""

"""Where the values of secrets come from: the environment, a folder of files, a .env file, or a program."""

"""One module per family of commands. They read options, call the composition, print; nothing else."""

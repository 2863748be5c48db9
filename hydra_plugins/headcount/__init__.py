"""What Hydra finds of headcount: its sweeper and its launchers. The work is done in src/sweeps/."""

"""What is written at each sync, and the checkpoints that let the log begin anew."""

"""Where the runs of a sweep are trained: processes of this machine, or a Ray cluster."""

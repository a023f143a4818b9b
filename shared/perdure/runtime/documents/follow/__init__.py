"""Following a document store: views as sources, a frame for each commit that changes one."""

"""Sessions at work: journal, runner, model and tool ports, and what stands behind those ports."""

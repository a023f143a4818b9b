"""Where rows live: components become segments, segments become Iceberg tables."""

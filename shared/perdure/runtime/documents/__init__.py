"""Document stores at work: handles, conversations, exports, replicas, views and jobs."""

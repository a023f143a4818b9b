"""Document stores: documents, tables and jobs that share one order of commits."""

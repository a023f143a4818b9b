"""Files in a bucket: each small one is one request, and half a file is none."""

from __future__ import annotations

from pyarrow.fs import FileSystem, S3FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO


class RemoteFileIO(PyArrowFileIO):
    """What pyiceberg writes to S3 through. Named by path in the catalog's properties.

    pyarrow itself opens an upload in parts for every file: three requests where one does, and
    parts that stay and are billed when a writer dies. The files of a commit are mostly small.
    """

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        # A file system says by itself how it is made again: no other way leads to this option.
        _, (options,) = super()._initialize_s3_fs(netloc).__reduce__()
        return S3FileSystem(**{**options, "allow_delayed_open": True})

"""What an export leaves beside its target when its process is killed is swept by the next one."""

from __future__ import annotations

import pytest
from tests.support.documents import REF, opened

from perdure.kernel.errors import Conflict
from perdure.runtime.documents import export, export_files

pytestmark = pytest.mark.stores


async def test_what_a_killed_export_left_is_swept_by_the_next_and_what_a_living_one_writes_is_not(
    tmp_path,
):
    killed, living = tmp_path / ".export-killed", tmp_path / "living"
    killed.write_bytes(b"half")

    with export_files.FileSink(living) as sink:
        await sink.write(b"whole")
        async with opened() as source:
            await export.export_to_file(source.means, REF, tmp_path / "done")
        with pytest.raises(Conflict), export_files.FileSink(tmp_path / "done"):
            pass
        await sink.finish()

    assert sorted(each.name for each in tmp_path.iterdir()) == ["done", "living"]
    assert living.read_bytes() == b"whole"

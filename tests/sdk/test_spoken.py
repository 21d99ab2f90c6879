"""What a client keeps of the audio it has sent."""

from lingua_sdk.spoken import MAX_REMEMBERED_BYTES, Spoken


async def test_chunks_that_are_never_heard_are_remembered_up_to_a_limit() -> None:
    spoken = Spoken()
    for _ in range(50):
        spoken.add_chunk(bytes(100_000), is_final=False)
    kept = [chunk.seq for chunk in spoken.chunks_from(0)]
    assert kept == list(range(50 - MAX_REMEMBERED_BYTES // 100_000, 50))

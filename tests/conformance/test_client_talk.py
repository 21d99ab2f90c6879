"""The conversation with a client: its session is opened, and its utterances get outcomes."""

from tests.support.kit_talks import LONG_S, client_talk


async def test_a_session_is_opened_and_speech_is_answered() -> None:
    async with client_talk() as (talk, client):
        speech = await talk.next_speech()
        await talk.translate(speech)
        assert speech not in talk.record.ended
        (text,) = talk.sent
        assert await talk.goes_on("unknown-fields", "more speech")
        assert await talk.until(lambda: text in client.output())


async def test_a_client_that_comes_back_goes_on_with_its_session() -> None:
    async with client_talk() as (talk, _):
        session_id = talk.record.session_id
        await talk.next_speech()
        assert talk.line is not None
        talk.line.cut()
        assert await talk.meet(LONG_S)
        await talk.take_in()
        assert talk.record.session_id == session_id
        assert await talk.goes_on("replay", "more speech")


async def test_every_utterance_gets_its_outcome() -> None:
    async with client_talk() as (talk, _):
        await talk.miss(await talk.next_speech())
        await talk.next_speech()
        await talk.catch_up()
        assert talk.record.ended == []

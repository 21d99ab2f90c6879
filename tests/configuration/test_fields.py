"""What is known of every setting: the documentation is made from it."""

from lingua_scheduler.configuration.fields import Field, fields


def field(name: str) -> Field:
    return next(field for field in fields() if field.name == name)


def test_a_field_tells_all_about_its_setting() -> None:
    assert field("pools.shard_size") == Field(
        name="pools.shard_size",
        type_name="int",
        default=100,
        description="Maximum nodes per shard",
        variable="LINGUA_POOLS_SHARD_SIZE",
        minimum=1,
        maximum=1000,
        choices=(),
    )
    assert field("logs.format").choices == ("auto", "json", "console")
    assert field("logs.format").type_name == "str"


def test_every_setting_has_one_line_of_documentation() -> None:
    for known in fields():
        assert known.description, known.name
        assert "\n" not in known.description, known.name
        assert not known.description.endswith("."), known.name

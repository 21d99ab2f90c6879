"""A mistake in the configuration."""


class SettingsError(Exception):
    """An invalid configuration. The message names the setting, the value found and what to do."""

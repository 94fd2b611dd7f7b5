"""What goes wrong, as exceptions."""


class Error(Exception):
    """Something went wrong; the message says what, where and what to do."""

    __module__ = "paceline"


class SettingError(Error, ValueError):
    """A setting, a description or a name cannot be understood."""

    __module__ = "paceline"

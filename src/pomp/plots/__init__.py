"""Pictures: functions that draw what others have computed."""

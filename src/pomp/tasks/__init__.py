"""What worlds start like and what they are worth."""

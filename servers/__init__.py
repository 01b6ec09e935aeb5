"""The downstream side: the faces we show."""

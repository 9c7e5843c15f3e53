"""The shapes of the three files that a person writes. Shapes only: rules across fields live in `generator.rules`."""

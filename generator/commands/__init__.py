"""The commands, in the order of the help: `add` is the command line of each, `run` returns its exit code."""

from generator.commands import completion, explain, local, migrate, new, pin, plan, promote, render, schema, validate
from generator.commands import set as set_keys

COMMANDS = (validate, render, plan, explain, new, set_keys, pin, promote, migrate, schema, local, completion)

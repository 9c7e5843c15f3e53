"""Shape and syntax (1xx)."""

from __future__ import annotations

from generator.diagnostics.codes.code import NEVER, Code, E, W

CODES = {
    "RTD101": Code(
        "the file is not valid YAML",
        E,
        why="every file is one YAML 1.2 document in UTF-8; a part that cannot be read could say anything",
        fix="correct the syntax at the mark or on the line before it: indent with spaces, close quotes and "
        "brackets, save as UTF-8",
    ),
    "RTD102": Code(
        "a key stands twice in one map",
        E,
        why="YAML readers keep one of the two in silence, and not all the same one",
        fix="keep one of the two; the note names the line of the first",
    ),
    "RTD103": Code(
        "unknown key",
        E,
        why="a misspelt key would otherwise do nothing",
        fix="take the name that the finding proposes, or remove the key; docs/environment.md lists all of them",
    ),
    "RTD104": Code(
        "a value has the wrong type or form",
        E,
        why='nothing is coerced: `nodes: "2"` and `kubernetesVersion: 1.30` are refused',
        fix="write the kind of value that the finding asks for; versions, ids and other text that looks like a "
        "number need quotes",
    ),
    "RTD105": Code(
        "a required key is missing",
        E,
        why="the key has no default that would be right for everyone",
        fix="add the key where the finding points; docs/environment.md says what it means",
    ),
    "RTD106": Code(
        "a file is missing or cannot be read",
        E,
        why="an environment stands on its cluster's file and its version.yaml; without them nothing can be checked "
        "or rendered",
        fix="create the file with `python -m generator new`, correct the name that points to it, or make it readable",
    ),
    "RTD107": Code(
        "the name in the file is not the name of the file or folder",
        E,
        why="the name decides where files are looked for, and what objects are called: two environments would "
        "overwrite each other",
        fix="set `name` to the name of the folder or file, or rename that",
    ),
    "RTD108": Code(
        "the file is too large or too deeply nested",
        E,
        why="at most 128 KiB, 50 levels and 5,000 values with aliases followed: a larger file is not one of ours",
        fix="write aliases out, remove what does not belong here, or split the environment",
    ),
    "RTD109": Code(
        "a training argument is unknown or has a bad value",
        E,
        why="checked by `training/config.py` itself: the training would stop with it on every node, after the nodes "
        "are paid for",
        fix="correct the name or the value; `python -m training.train --help` lists every argument with its unit "
        "and range",
    ),
    "RTD110": Code(
        "a comment silences nothing",
        W,
        why="the finding is gone, or stands elsewhere: the comment would hide the next one that nobody has looked at",
        fix="remove the code from the comment, or the comment; put it on the finding's line or right above it",
        silenceable=NEVER,
    ),
    "RTD111": Code(
        "a comment cannot silence as written",
        E,
        why="no reason, an unknown code, or a finding that cannot be silenced: what was meant to be accepted is not",
        fix="write `# rtd: ignore RTD306 because <reason>`, with codes that can be silenced; mend what the others are "
        "about",
    ),
    "RTD120": Code(
        "a layer is missing, or its name is not one",
        E,
        why="`extends` names files in `environments/_base/`, without folder and ending",
        fix="correct the name, or create the file",
    ),
    "RTD121": Code(
        "layers extend each other in a circle, or too deeply",
        E,
        why="no order of the layers would hold; at most 10 levels",
        fix="remove one `extends`; what several layers share goes into a layer below them",
    ),
    "RTD122": Code(
        "no environment extends this layer",
        W,
        why="what it says has no effect; only looked for when all environments are validated",
        fix="name it under `extends` of an environment, or remove the file",
    ),
    "RTD130": Code(
        "the file has an older format",
        E,
        why="the number in `schemaVersion` says how its keys are meant",
        fix="`python -m generator migrate` raises it; comments stay",
    ),
    "RTD131": Code(
        "the file has a format that this version does not know",
        E,
        why="it was written for a newer version of this tool",
        fix="use that version",
    ),
    "RTD132": Code(
        "the file holds Git's conflict markers",
        E,
        why="a merge was not finished: two versions stand in the file",
        fix="keep one side or both, and remove the lines of markers",
    ),
    "RTD140": Code(
        "the chart does not take this value",
        E,
        why="`values` are judged by the chart's own schema",
        fix="take a key and a value of docs/values.md; the help names what fits",
    ),
    "RTD141": Code(
        "a value that the environment decides",
        E,
        why="`values` are for what has no key here: a number in two places would differ one day",
        fix="remove it from `values`, and change the key of the environment that the help names",
    ),
    "RTD142": Code(
        "the code of your own cannot be used as written",
        E,
        why="one source, a module that runs it, and a commit that does not move under the name of the job",
        fix="name one source, a module with its arguments, and a commit, digest or version that stays what it is",
    ),
    "RTD143": Code(
        "the source of model or data is malformed",
        E,
        why="a name on the hub with its commit, an `s3://` address, or a path inside the pods",
        fix="write `name` and a full commit as `revision` for the hub, an `s3://` address, or an absolute path",
    ),
    "RTD144": Code(
        "a label, annotation or Secret that cannot be used here",
        E,
        why="it belongs to Helm, the operator, a queue or the chart, or is there twice",
        fix="use another key, which the help names, or remove it; take each Secret once",
    ),
}

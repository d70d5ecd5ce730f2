"""The conformance suite, run on the worlds that come with it, and on worlds that break their promises."""

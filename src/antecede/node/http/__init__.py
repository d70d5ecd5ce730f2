"""A node over HTTP: a page to look at, health, metrics, and topics to publish on and to read.

Feeds and publications are those of every other client (`node.feed`, `node.publishing`).

server.py      the port: admission, tokens, and the route of a request
connection.py  one socket: TLS, h11, deadlines
request.py     a request, taken apart
answers.py     answers, and errors as JSON
routes.py      what there is, and who may use it
openapi.py     the same as an OpenAPI document
topics.py      the routes of topics
publish.py     one publication
stream.py      one subscription, as server-sent events
messages.py    messages as JSON
last.py        the last message on each topic
files.py       files of a directory: an application's own pages
"""

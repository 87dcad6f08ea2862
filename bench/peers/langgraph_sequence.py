"""LangGraph with its SQLite checkpointer: so many nodes that do nothing; prints how long they took."""

import sqlite3
import sys
import time
from typing import TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

STEPS, FOLDER = int(sys.argv[1]), sys.argv[2]


class State(TypedDict):
    count: int


def nothing(state: State) -> State:
    return {"count": state["count"] + 1}


builder = StateGraph(State)
for number in range(STEPS):
    builder.add_node(f"s{number}", nothing)
    builder.add_edge(f"s{number - 1}" if number else START, f"s{number}")
builder.add_edge(f"s{STEPS - 1}", END)
connection = sqlite3.connect(f"{FOLDER}/langgraph.sqlite", check_same_thread=False)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("PRAGMA synchronous = FULL")
graph = builder.compile(checkpointer=SqliteSaver(connection))
began = time.perf_counter()
graph.invoke(
    {"count": 0}, {"configurable": {"thread_id": "1"}, "recursion_limit": STEPS + 10}, durability="sync"
)
print(time.perf_counter() - began)

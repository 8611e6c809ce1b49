"""sandboxio in agent frameworks: native tools of each, which run a model's code in a sandbox.

One module for each framework, named like it: ``langchain`` (and ``langgraph``), ``deepagents``,
``openai_agents``, ``pydantic_ai``, ``crewai``, ``smolagents``. Each needs its framework, and says
how to install it if that is missing. Nothing here loosens what the sandbox was created with.
"""

"""The four roles played by language models, over any OpenAI-compatible endpoint.

Nothing here is imported until a run asks for it: importing ``openai`` takes a second.
"""

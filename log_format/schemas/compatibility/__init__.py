"""Compatibility of schemas: whether readers with one understand what was written with another, and if not, why.

``incompatibilities`` judges a new schema beside one old one; ``first_incompatible`` beside a subject's versions, as its level
says. Each format has a module of rules, tables where they are tables; ``pairs`` judges by them.
"""

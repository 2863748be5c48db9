"""From an export to one page that a teacher shows and a reviewer accepts.

answers     judges the export: shared and tuned learning rates, or the sentence why nothing can be judged
blocks      what a page is made of: paragraphs, tables, figures
tables      numbers as people read them, in rows
sections    the page's content in its order
page, svg   as HTML: one file, no outside request        markdown   as text        as_json   for programs
"""

-- The first words of a letter: name, value, name, value … A letter of ours has few; one with more than this is foreign,
-- and perhaps has more than Lua can hand to a command.
local MOST_WORDS = 64
local function first_words(letter) return {unpack(letter, 1, math.min(#letter, MOST_WORDS))} end

-- A whole number that is not below zero, or nothing. Lua itself would take 'nan', 'inf', '0x1' and 5000 digits for numbers.
-- `store/reading.py` reads them alike.
local function read_number(text, digits)
  if text and #text <= (digits or 15) and string.match(text, '^%d+$') then return tonumber(text) end
end

-- The slots of a node: as many digits as the largest `nodes.max_jobs` has.
local function read_slots(text) return read_number(text, 7) end

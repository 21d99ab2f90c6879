-- Shard and serial of a node's place, as text, or nothing: what is no place of ours, or beyond the last shard, is none.
-- `store/reading.py` reads them alike.
local function read_place(text, max_shards)
  local shard, serial = string.match(text or '', '^(%d+) (%d+)$')
  if not shard or #shard > 4 or #serial > 15 or tonumber(shard) >= tonumber(max_shards) then return nil end
  return shard, serial
end

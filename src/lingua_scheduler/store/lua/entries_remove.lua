-- entries_remove: remove invalid entries, which no scheduler writes, unless they changed since they were read.
-- Replies: removed count
local key     = KEYS[1]
local whole   = ARGV[1]   -- 1: the key goes if all entries are as they were; else each entry for itself
local entries = {unpack(ARGV, 2)}  -- name and value in turn; of streams and lists the value does not matter

local kind, removed = redis.call('TYPE', key).ok, 0
local function is_same(name, value)
  if kind == 'hash' then return redis.call('HGET', key, name) == value end
  if kind == 'string' then return redis.call('GET', key) == value end
  return true
end
local all_same = true
for i = 1, #entries, 2 do
  local name, value = entries[i], entries[i + 1]
  if not is_same(name, value) then
    all_same = false
  elseif whole == '1' then
    removed = 1
  elseif kind == 'hash' then
    removed = removed + redis.call('HDEL', key, name)
  elseif kind == 'zset' then
    removed = removed + redis.call('ZREM', key, name)
  elseif kind == 'set' then
    removed = removed + redis.call('SREM', key, name)
  elseif kind == 'stream' then
    removed = removed + redis.call('XDEL', key, name)
  elseif kind == 'list' then
    removed = removed + redis.call('LREM', key, 0, value)
  end
end
if whole == '1' and all_same then redis.call('DEL', key) end
return {'removed', removed}

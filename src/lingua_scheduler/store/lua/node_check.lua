-- node_check: check that the data of a connected node is complete. Read-only.
-- An invalid value counts as missing.
-- Replies: whole | torn what (something is missing or inconsistent) | gone (it is not registered)
--          | superseded (another connection owns it)
-- include: clock
-- include: number
-- include: words
-- include: lease
-- include: leased
local node_key = KEYS[1]             -- hash, the profile
local seen     = KEYS[2]             -- zset node -> alive until
local free     = KEYS[3]             -- zset node -> free slots
local held     = KEYS[4]             -- zset node -> live leases
local limits   = KEYS[5]             -- hash node -> slots
local owners   = KEYS[6]             -- hash node -> epoch instance connection features
local leases   = KEYS[7]             -- zset lease -> deadline
local summary  = KEYS[8]             -- hash pool -> nodes
local looks    = KEYS[9]             -- hash node -> its state and how it looks
local wide     = KEYS[10]            -- hash wide pool -> its definition
local pools    = {unpack(KEYS, 11)}  -- sets of node ids, one for each of `names`
local node     = ARGV[1]
local instance = ARGV[2]
local link     = ARGV[3]             -- the connection's id
local names    = ARGV[4]             -- pools it serves
local running  = ARGV[5]             -- jobs it runs, as far as is known
local now_ms   = ARGV[6]

local owner = redis.call('HGET', owners, node)
local owner_instance, owner_link = string.match(owner or '', '^%d+ (%S+) (%S+) [01]%l*$')
-- An owner that cannot be read is none.
if not owner_instance then return {'gone'} end
if owner_instance ~= instance or owner_link ~= link then return {'superseded'} end

local stored = redis.call('HMGET', node_key, 'pools', 'takes', 'drain', 'profile')
local function is_like(text, pattern) return text and string.match(text, pattern) ~= nil end
-- Neither endless nor below nothing.
local function is_score(key)
  local score = tonumber(redis.call('ZSCORE', key, node) or nil)
  return score and score >= 0 and score < math.huge
end
local is_readable = is_like(stored[2], '^[01]$') and is_like(stored[3] or '', '^1?$') and is_like(stored[4], '^{.*}$')
if not stored[1] or not is_readable then return {'torn', 'node'} end
if not is_score(seen) then return {'torn', 'seen'} end
if not read_slots(redis.call('HGET', limits, node)) then return {'torn', 'limits'} end
-- Its state, and perhaps how it looks.
local look = redis.call('HGET', looks, node)
if not (is_like(look, '^%l+ $') or is_like(look, '^%l+ %S+ %d+ %S+ %S+ %S+$')) then return {'torn', 'looks'} end
local is_offered = stored[2] == '1' and stored[3] ~= '1'
if is_offered and not is_score(free) then return {'torn', 'free'} end
if stored[3] ~= '1' then
  if stored[1] ~= names then return {'torn', 'pools'} end
  for i, name in ipairs(words(names)) do
    if redis.call('SISMEMBER', pools[i], node) == 0 then return {'torn', 'pool'} end
    if (read_number(redis.call('HGET', summary, name), 9) or 0) == 0 then return {'torn', 'pairs'} end
    if string.sub(name, 1, 2) == '*:' and not is_like(redis.call('HGET', wide, name), '^{.*}$') then
      return {'torn', 'wide'}
    end
  end
end
local mine, moment, accounted = leases_of(node, leases), clock(now_ms), {}
if #mine ~= tonumber(redis.call('ZSCORE', held, node) or 0) then return {'torn', 'held'} end
for _, lease in ipairs(mine) do
  if tonumber(redis.call('ZSCORE', leases, lease)) > moment then accounted[string.match(lease, '^(.-)#')] = true end
end
for _, job in ipairs(words(running)) do
  if not accounted[job] then return {'torn', 'leases'} end
end
return {'whole'}

-- credentials_change: write keys, issuers of tokens and revocations, if no other instance did since they were read.
-- Replies: changed version | outdated (the version is another than expected: read again, join, try again)
-- A version is never used twice, also not by a Redis that lost its data: it is at least the time.
-- include: clock
-- include: number
local credentials = KEYS[1]   -- hash id -> JSON
local issuers     = KEYS[2]   -- hash id -> JSON
local revocations = KEYS[3]   -- hash name -> JSON
local revision    = KEYS[4]   -- string: the version
local expected    = ARGV[1]
local now_ms      = ARGV[2]
local changes     = {unpack(ARGV, 3)}   -- family, name and value, in turns; an empty value removes the entry

local families = {keys = credentials, issuers = issuers, void = revocations}
local version = read_number(redis.call('GET', revision)) or 0
if version ~= tonumber(expected) then return {'outdated'} end
for i = 1, #changes, 3 do
  local family, name, value = families[changes[i]], changes[i + 1], changes[i + 2]
  if value == '' then redis.call('HDEL', family, name) else redis.call('HSET', family, name, value) end
end
version = string.format('%.0f', math.max(version + 1, clock(now_ms)))
redis.call('SET', revision, version)
return {'changed', version}

-- version_claim: write the data version if there is none, else check whether this release supports it.
-- An older version is kept while instances of that release may run; it is raised only on request.
-- Replies: written | same | raised | older stored (written by the previous release, which may still run)
--          | too_old stored | newer stored
-- include: number
local version  = KEYS[1]   -- string, the version of everything under this prefix
local known    = ARGV[1]   -- the version this release writes
local oldest   = ARGV[2]   -- the oldest it can work with
local finish   = ARGV[3]   -- 1: no older release runs any more
local unmarked = ARGV[4]   -- what to write where there is none

local stored = redis.call('GET', version)
if not stored then
  redis.call('SET', version, finish == '1' and known or unmarked)
  return {'written'}
end
if stored == known then return {'same'} end
local number = read_number(stored, 9)
if not number or number > tonumber(known) then return {'newer', stored} end
if number < tonumber(oldest) then return {'too_old', stored} end
if finish ~= '1' then return {'older', stored} end
redis.call('SET', version, known)
return {'raised'}

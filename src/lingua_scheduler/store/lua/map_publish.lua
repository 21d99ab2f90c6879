-- map_publish: the leader publishes the pool map; the version rises only if the map differs.
-- Version and map are fields of one hash, so they are always read together. It never expires.
-- Replies: published version | confirmed version (the map is unchanged) | stale (the caller is no longer the leader)
--          | unknown (the stored map is not the one the caller expects: send the whole map)
-- include: clock
-- include: number
local leader      = KEYS[1]   -- string: instance and epoch
local config      = KEYS[2]   -- hash: version, digest, map, wide, generated_at_ms, generated_by, epoch
local instance    = ARGV[1]
local epoch       = ARGV[2]
local digest      = ARGV[3]   -- of the map
local map         = ARGV[4]   -- empty: it should be there already
local definitions = ARGV[5]   -- of its wide pools
local now_ms      = ARGV[6]

if redis.call('GET', leader) ~= instance .. ' ' .. epoch then return {'stale'} end
local known = redis.call('HMGET', config, 'version', 'digest')
local moment = string.format('%.0f', clock(now_ms))
local version = read_number(known[1])
if known[2] == digest and version then
  redis.call('HSET', config, 'generated_at_ms', moment, 'generated_by', instance, 'epoch', epoch)
  return {'confirmed', known[1]}
end
if map == '' then return {'unknown'} end
-- One that cannot be read begins anew, as in a Redis that lost its data.
version = string.format('%.0f', (version or 0) + 1)
redis.call('HSET', config, 'version', version, 'digest', digest, 'map', map, 'wide', definitions, 'generated_at_ms', moment,
  'generated_by', instance, 'epoch', epoch)
return {'published', version}
